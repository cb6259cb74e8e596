package main

import (
	"testing"

	"handoff/chaos/servers"
)

// If no servers can be found, one message lists the searched places and the next steps.
func TestMissingServersAreReported(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
	t.Setenv(servers.AddressPostgres, "")
	t.Setenv(servers.AddressRabbitMQ, "")
	t.Setenv(servers.Without, "")
	t.Setenv(servers.ImagePostgres, "postgres:17")
	t.Setenv(servers.ImageRabbitMQ, "rabbitmq:4")
	for _, args := range [][]string{{"servers"}, {"up"}, {"run", "--world", "live", "ttl-race"}} {
		runChaos(t, args...).expectOutput(t, 4,
			"PostgreSQL not found", servers.AddressPostgres, "postgres:17",
			"RabbitMQ not found", servers.AddressRabbitMQ, "rabbitmq:4",
			"nowhere/docker.sock", "apt-get install -y postgresql rabbitmq-server", "start a container engine")
	}
}
