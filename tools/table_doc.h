/* Documents with a table that a program makes, between two lines that mark it. */
#ifndef TABLE_DOC_H
#define TABLE_DOC_H

/* Prints a document with the table between its two marks replaced. `target` is what makes it: `make -C build TARGET`.
 * Returns the exit status. */
int table_doc_print(const char *path, const char *target, void (*print_table)(void));

#endif
