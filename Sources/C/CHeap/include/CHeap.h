/*
 * The heap of the program that links this: what is given back is overwritten first, whoever had it.
 *
 * A type of ours can clear its own memory (Secret does), but not the texts, buffers and arrays that a token passes through
 * in Swift, SwiftNIO, Foundation, SQLite and the C library. They all come from one heap and go back to it.
 */
