// Package rabbitmqtest tests core/broker/rabbitmq on a real RabbitMQ, and compares the broker's model with
// it: the contract, random sequences, and events that only a real node has (alarms, restarts, connections
// that fall silent). It consists of tests only. It is not in the adapter's folder because it needs servers
// and models, and core depends on neither.
package rabbitmqtest
