/* Lines that are only comments are left out; whatever shares a line with code stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>
#include <cmocka.h>

#include "pages/minify.h"

static void expect(const char *from, const char *to)
{
    char out[512];
    size_t len = 0;
    struct span text = span_of(from);
    for (size_t at = 0; at < text.len;) {
        size_t skip = minify_skip(text, at);
        if (skip > 0) {
            at += skip;
        } else {
            out[len++] = text.at[at++];
        }
    }
    out[len] = '\0';
    assert_string_equal(out, to);
}

static void comments_on_lines_of_their_own_go(void **state)
{
    (void)state;
    expect("// one\nlet a;\n    // two\n\t// three\nlet b;\n", "let a;\nlet b;\n");
    expect("/*\n * many\n */\nlet a;\n    /* one */\nlet b;", "let a;\nlet b;");
    expect("let a;\n// the last", "let a;\n");
    expect("/* only */", "");
}

static void whatever_shares_a_line_with_code_stays(void **state)
{
    (void)state;
    expect("let a; // why\n", "let a; // why\n");
    expect("let a = 'http://x';\n", "let a = 'http://x';\n");
    expect("/* x */ let a;\n", "/* x */ let a;\n");
    expect("a /* x */ b\n", "a /* x */ b\n");
    expect("let a = b\n    / c;\n", "let a = b\n/ c;\n");
}

static void indentation_goes(void **state)
{
    (void)state;
    expect("a {\n    b\n\t\tc  d\n}\n", "a {\nb\nc  d\n}\n");
    expect("  a\n   ", "a\n");
}

static void what_is_not_a_whole_comment_stays(void **state)
{
    (void)state;
    expect("/* without an end\nlet a;\n", "/* without an end\nlet a;\n");
    expect("/", "/");
    expect("/*", "/*");
    expect("", "");
    expect("\n\n", "\n\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comments_on_lines_of_their_own_go),
        cmocka_unit_test(whatever_shares_a_line_with_code_stays),
        cmocka_unit_test(indentation_goes),
        cmocka_unit_test(what_is_not_a_whole_comment_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
