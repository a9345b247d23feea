/* The inside of the crowd, shared by crowd*.c. */
#ifndef SLUICE_SIM_CROWD_H
#define SLUICE_SIM_CROWD_H

#include "sim_private.h"

#define REMEMBERED 8

/* A ticket, and the order it stands for, as far as this client knows. */
struct purchase {
    uint64_t user;
    const struct plan_sale *sale;
    const struct plan_item *item;
    struct order_id order;
    char ticket[TICKET_TEXT + 1]; /* empty: none yet */
    int64_t expires_at_ms;
    uint32_t qty;
    bool known; /* the server has told of the order */
    enum order_state state;
    int64_t pay_by_ms; /* 0: not told yet */
    char payment[24];  /* its payment_id, once one was sent */
    bool late;         /* will pay after the deadline */
};

enum errand {
    ERRAND_NONE,
    ERRAND_TICKET,
    ERRAND_BUY,
    ERRAND_FOLLOW, /* the order, until it is LOCKED */
    ERRAND_SETTLE, /* pay, cancel, or leave it */
    ERRAND_LOOK,   /* one more look, then it is remembered */
    ERRAND_ONCE,   /* one request, whatever comes back */
};

struct client {
    uint32_t number;
    int32_t wire; /* -1: not connected */
    bool waiting;
    bool streaming;
    uint64_t serial; /* of requests: a timer of an older one means nothing */
    struct sim_request request;
    struct pile in;
    bool in_stream; /* the head of a stream was read */
    uint64_t stream_id;
    enum errand errand;
    uint32_t tries;
    struct purchase now;
    struct purchase remembered[REMEMBERED];
    uint32_t remembered_count;
    /* operator */
    uint32_t next_sale;
    uint32_t next_step;
    uint64_t restocks;
    bool again; /* the last operator's request once more */
};

/* ---- crowd.c ---- */

/* Bytes of a request; the crowd's one buffer. */
struct out *crowd_text(void);
void crowd_bearer(struct sim *sim, struct out *out, uint64_t user); /* 0: the operator */
/* Finishes a request: headers, body; then sends it. body may be empty. */
void client_send(struct sim *sim, struct client *client, struct sim_request request,
                 const char *method, struct span path, uint64_t user, struct span more_headers,
                 struct span body);
void client_later(struct sim *sim, struct client *client, int64_t delay_us);

/* ---- crowd_answer.c ---- */

/* 0: more bytes are needed; > 0: so many bytes of `bytes` are a complete answer or stream event
 * head; -1: not HTTP, not JSON, not what was promised (said in ret_why). */
struct head {
    int status;
    size_t bytes;  /* of the head */
    size_t length; /* of the body */
    bool stream;
    bool json;
    bool close;
};
int head_read(const char *bytes, size_t n, struct head *ret_head, const char **ret_why);
/* The body of an answer. */
int answer_read(const struct sim_request *request, const struct head *head, struct span body,
                struct sim_answer *ret_answer, const char **ret_why);
int told_read(struct span json, struct sim_told *ret_answer);
int numbers_read(struct span json, struct sim_answer *ret_answer);
void answer_done(struct sim_answer *answer);
/* The ticket text of a TICKET answer, TICKET_TEXT long; into the purchase. */
int ticket_read(struct span body, char *ret_ticket);

/* ---- crowd_buyer.c ---- */

void buyer_act(struct sim *sim, struct client *client);
void buyer_heard(struct sim *sim, struct client *client, const struct sim_answer *answer,
                 struct span body);
void buyer_unheard(struct sim *sim, struct client *client);
/* The order's stream has sent an event. */
void buyer_streamed(struct client *client, const struct sim_told *told);

/* ---- crowd_cheat.c ---- */

void cheat_act(struct sim *sim, struct client *client);

/* ---- crowd_operator.c ---- */

void operator_act(struct sim *sim, struct client *client);
void operator_heard(struct sim *sim, struct client *client, const struct sim_answer *answer);

#endif
