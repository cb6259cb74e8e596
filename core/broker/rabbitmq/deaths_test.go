package rabbitmq

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Each header was sent to RabbitMQ 3.10 in a message that was then rejected. Some of them make its dead
// lettering fail; it passes the others on unchanged. RabbitMQ itself never writes such headers.
func TestParseDeathsRefusesForeignHeaders(t *testing.T) {
	good := func(change func(amqp.Table)) []any {
		table := amqp.Table{
			"queue": "worker.1.executions", "reason": "expired", "count": int64(2), "time": time.Unix(1_700_000_000, 0),
			"exchange": "", "routing-keys": []any{"k"},
		}
		change(table)
		return []any{table}
	}
	set := func(key string, value any) []any { return good(func(t amqp.Table) { t[key] = value }) }
	for name, header := range map[string]any{
		"no list": "text", "a number in it": []any{int32(3)}, "an empty table": []any{amqp.Table{}},
		"of S5": []any{amqp.Table{"queue": "q", "reason": int32(5), "count": "x", "time": "y"}, int32(3), nil},
		"count": set("count", "x"), "no count": set("count", nil), "negative": set("count", int64(-1)), "time": set("time", "y"),
		"queue": set("queue", int32(1)), "reason": set("reason", "boredom"), "exchange": set("exchange", int32(1)), "keys": set("routing-keys", "q"),
		"the second": append(set("count", int64(1)), "x"),
	} {
		if all, err := parseDeaths(amqp.Table{"x-death": header}); err == nil {
			t.Errorf("%s: %+v", name, all)
		}
	}
	all, err := parseDeaths(amqp.Table{"x-death": good(func(t amqp.Table) { t["original-expiration"] = "5" })})
	if err != nil || len(all) != 1 || all[0].Count != 2 || all[0].Reason.String() != "expired" || all[0].Queue != "worker.1.executions" {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := parseDeaths(amqp.Table{"other": 1}); err != nil || all != nil {
		t.Errorf("without the header: %+v, %v", all, err)
	}
}
