// Package rabbitmqtest tests core/broker/rabbitmq on a real RabbitMQ, and holds the broker's model to it: the contract,
// random sequences, and what only a real node does (alarms, restarts, connections that fall silent). It consists of tests
// only. It is not beside the adapter because it needs servers and models, and core knows neither.
package rabbitmqtest
