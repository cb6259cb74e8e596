// Package postgrestest tests core/store/postgres on a real PostgreSQL, and compares the store's model with
// it: the contract, random sequences, pairs of simultaneous writes, the cost of each statement, and the SQL
// of the pages. It consists of tests only. It is not in the store's folder because it needs servers and
// models, and core depends on neither.
package postgrestest
