package main

import (
	"testing"

	"handoff/chaos/servers"
)

// If no way leads to servers, one message says where it searched and what to do.
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
