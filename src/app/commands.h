/*
 * The commands of the program in one table: name, function, one line of help. main.c finds the
 * command and calls it with argv[0] as "sluice NAME", followed by the command's arguments. A
 * command returns the exit status: 0, 1 (refused or failed) or 2 (usage), with a message on stderr.
 * All accept --help.
 */
#ifndef SLUICE_APP_COMMANDS_H
#define SLUICE_APP_COMMANDS_H

/* clang-format off */
#define COMMANDS(X)                                                                                \
    X("serve", serve_main, "run the server")                                                       \
    X("sale", sale_main, "create, list, show and move sales, and report on them")                  \
    X("order", order_main, "show one order with its history, or list orders")                      \
    X("block", block_main, "list, set and remove blocks of users, addresses and devices")          \
    X("pages", pages_main, "write the storefront's pages into a folder, for a CDN or nginx")       \
    X("token", token_main, "print a buyer's or the operator's token")                              \
    X("journal", journal_main, "dump or verify the journal")                                       \
    X("queue", queue_main, "show what is parked in the queue, or send it round again")             \
    X("reconcile", reconcile_main, "compare gate, queue and ledger, and repair on demand")          \
    X("bench", bench_main, "put a server under load and check the answers of buyers")              \
    X("check-config", check_config_main, "check a configuration file")                             \
    X("version", version_main, "print the version")
/* clang-format on */

#define X(name, function, help) int function(int argc, char **argv);
COMMANDS(X)
#undef X

#endif
