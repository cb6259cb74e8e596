// Package postgrestest tests core/store/postgres on a real PostgreSQL, and holds the store's model to it: the contract,
// random sequences, pairs of writes that meet, what each statement costs (docs/costs.md), and the SQL of the pages.
// It consists of tests only. It is not beside the store because it needs servers and models, and core knows neither.
package postgrestest
