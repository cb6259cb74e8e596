package rabbitmq

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// QueueArguments are the x-arguments with which a queue is declared; an unknown type is an error. RabbitMQ refuses a
// declaration whose arguments differ from those of the queue that exists.
func QueueArguments(q broker.Queue) (amqp.Table, error) { return queueArguments(q) }
