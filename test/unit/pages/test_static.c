/* Static files: hashed names, caching, and what they cost to send. */
#include "unit/http/server_fixture.h"

#include "pages/static.h"

/* --- Static files -------------------------------------------------------------------------------
 */

static const struct web_asset page_cache[] = {
#define ASSET(path, text)                                                                          \
    {                                                                                              \
        path, (const unsigned char *)(text), sizeof(text) - 1                                      \
    }
    ASSET("app.js", "import '/assets/words.js'; // not /assets/words.json"),
    ASSET("index.html", "<script src=\"/assets/app.js\"></script><img src=/assets/i/icon.svg>"),
    ASSET("i/icon.svg", "<svg/>"),
    ASSET("words.js", "export default 1"),
};

/* The bytes between two marks of the last answer, as a string in `ret`. */
static void between(struct span text, const char *from, const char *to, char *ret, size_t cap)
{
    char all[4096];
    (void)snprintf(all, sizeof(all), "%.*s", (int)text.len, text.at);
    char *at = strstr(all, from);
    assert_non_null(at);
    at += strlen(from);
    char *end = strstr(at, to);
    assert_non_null(end);
    *end = '\0';
    (void)snprintf(ret, cap, "%s", at);
}

static void test_static_files_have_hashed_names(void **state)
{
    struct fixture *f = *state;
    char text[512];
    char script[128];
    char words[128];
    char etag[64];
    assert_int_equal(static_start(page_cache, 4), 0);
    uint32_t c = connect_peer(f);

    send_text(f, c, GET("/"));
    struct span page = memory_net_take(f->net, c);
    between(page, "script src=\"", "\"", script, sizeof(script));
    assert_memory_equal(script, "/assets/app.", 12);
    assert_string_equal(static_address("/assets/app.js"), script);
    assert_string_equal(static_address("/assets/app.jsx"), "/assets/app.jsx");
    assert_string_equal(static_address("https://x/assets/app.js"), "https://x/assets/app.js");
    assert_string_equal(static_address("/assets/"), "/assets/");
    assert_int_equal(strlen(script), strlen("/assets/app..js") + 16);
    between(page, "ETag: ", "\r\n", etag, sizeof(etag));
    between(page, "Cache-Control: ", "\r\n", text, sizeof(text));
    assert_string_equal(text, "no-cache");
    between(page, "Content-Security-Policy: ", ";", text, sizeof(text));
    assert_string_equal(text, "default-src 'self'");
    between(page, "img src=", ">", text, sizeof(text));
    assert_memory_equal(text, "/assets/i/icon.", 15);
    between(page, "Content-Type: ", "\r\n", text, sizeof(text));
    assert_string_equal(text, "text/html; charset=utf-8");

    (void)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H "If-None-Match: W/%s, \"z\"\r\n\r\n",
                   etag);
    send_text(f, c, text);
    expect_status(f, c, 304);

    (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" H "\r\n", script);
    send_text(f, c, text);
    struct span answer = memory_net_take(f->net, c);
    between(answer, "import '", "'", words, sizeof(words));
    assert_memory_equal(words, "/assets/words.", 14);
    assert_int_equal(strlen(words), strlen("/assets/words..js") + 16);
    between(answer, "not ", "words.json", text, sizeof(text)); /* another name, left alone */
    between(answer, "Cache-Control: ", "\r\n", text, sizeof(text));
    assert_string_equal(text, "public, max-age=31536000, immutable");
    between(answer, "X-Content-Type-Options: ", "\r\n", text, sizeof(text));
    assert_string_equal(text, "nosniff");

    (void)snprintf(text, sizeof(text), "HEAD %s HTTP/1.1\r\n" H "\r\n", words);
    send_text(f, c, text);
    answer = memory_net_take(f->net, c);
    between(answer, "Content-Length: ", "\r\n", text, sizeof(text));
    assert_string_equal(text, "16");
    assert_memory_equal(answer.at + answer.len - 4, "\r\n\r\n", 4);

    send_text(f, c, "PUT / HTTP/1.1\r\n" H "\r\n");
    answer = memory_net_take(f->net, c);
    assert_memory_equal(answer.at, "HTTP/1.1 405 ", 13);
    between(answer, "Allow: ", "\r\n", text, sizeof(text));
    assert_string_equal(text, "GET, HEAD");

    send_text(f, c, GET("/assets/app.js")); /* without its hash: nothing of ours */
    expect_text(f, c, OK("13", "assets/app.js"));
    static_stop();
}

static void test_a_large_static_file_takes_no_large_buffer(void **state)
{
    struct fixture *f = *state;
    const struct web_asset big[] = {{"index.html", (const unsigned char *)huge, sizeof(huge)}};
    assert_int_equal(static_start(big, 1), 0);
    size_t got = 0;
    uint32_t c[5];
    for (int i = 0; i < 5; i++) {
        c[i] = connect_peer(f);
        memory_net_window(f->net, c[i], 1000);
        send_text(f, c[i], GET("/"));
    }
    assert_int_equal(f->server->buffers.pools[HTTP_POOL_LARGE].used, 0);
    for (int i = 0; i < 5; i++) {
        memory_net_window(f->net, c[i], SIZE_MAX);
        settle(f);
        struct span all = memory_net_take(f->net, c[i]);
        assert_int_equal(all.at[all.len - 1], 'x');
        got += all.len;
    }
    assert_true(got > 5 * sizeof(huge));
    expect_nothing_held(f);
    static_stop();
}

static void test_files_that_name_each_other_are_refused(void **state)
{
    (void)state;
    static const struct web_asset circle[] = {
        ASSET("a.js", "import '/assets/b.js'"),
        ASSET("b.js", "import '/assets/a.js'"),
    };
    assert_int_not_equal(static_start(circle, 2), 0);
    assert_int_equal(static_start(page_cache, 4), 0);
    static_stop();
}

int main(void)
{
    fixture_answers = static_answer;
    const struct CMUnitTest tests[] = {
        T(test_static_files_have_hashed_names),
        T(test_a_large_static_file_takes_no_large_buffer),
        T(test_files_that_name_each_other_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
