/* `weir history sql`: SQL on the history of a data folder. */
#ifndef WEIR_SERVE_HISTORY_SQL_H
#define WEIR_SERVE_HISTORY_SQL_H

/* argv[0] is "sql".  Returns the exit code. */
int history_sql_main(int argc, char **argv);

#endif
