/* A stale lease holder's write is rejected by its fencing token. */
#include <string.h>

#include "world.h"

/* The highest token that was given out; 0: none. */
static uint64_t token_of(const struct world *world, const char *name)
{
    for (size_t i = 0; i < world->model.leases_count; i++) {
        if (strcmp(world->model.leases[i].name, name) == 0) {
            return world->model.leases[i].token;
        }
    }
    return 0;
}

/* Whose lease an op has to be written under; NULL: nobody's. */
static const char *lease_of(const struct ledger_op *op, char *text, size_t size)
{
    switch (op->kind) {
    case LEDGER_EXPIRE:
    case LEDGER_SALE_FORGET:
        return KEEPER_LEASE;
    case LEDGER_EPOCH:
        (void)snprintf(text, size, "segment-%u", op->segment);
        return text;
    case LEDGER_TRANSFERRED:
        return "balance";
    case LEDGER_CURSOR:
        return "events";
    default:
        return NULL;
    }
}

void promise_11_commit(struct world *world, const struct ledger_batch *batch, bool committed)
{
    char text[32];
    for (size_t i = 0; committed && i < batch->count; i++) {
        const char *lease = lease_of(batch->ops[i], text, sizeof(text));
        if (lease == NULL) {
            continue;
        }
        if (batch->lease == NULL || strcmp(batch->lease, lease) != 0 ||
            batch->token < token_of(world, lease)) {
            world_broken(world, 11, "a write under %s with token %llu, %llu was given out", lease,
                         (unsigned long long)(batch->lease != NULL ? batch->token : 0),
                         (unsigned long long)token_of(world, lease));
        }
    }
}

void promise_11_rebuilt(struct world *world, uint32_t segment, uint64_t fence)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "segment-%u", segment);
    if (fence == 0 || fence > token_of(world, name)) {
        world_broken(world, 11, "segment %u was rebuilt under token %llu, which nobody gave out",
                     segment, (unsigned long long)fence);
    }
    if (fence > world->model.fences[segment]) {
        world->model.fences[segment] = fence;
    }
    if (fence < world->model.fences[segment]) {
        world_broken(world, 11, "segment %u took a step under token %llu after %llu", segment,
                     (unsigned long long)fence, (unsigned long long)world->model.fences[segment]);
    }
}
