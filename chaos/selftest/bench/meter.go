package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// measurement is one run of one way of working.
type measurement struct {
	way  string
	n    int           // executions
	took time.Duration // from the first one's creation to the last one's end, by the database's clock
	used map[string]time.Duration
	wal  int64 // bytes
}

func (m *measurement) perSecond() float64 { return float64(m.n) / m.took.Seconds() }

// timePerExecution is the processor time of one execution in one kind of process.
func (m *measurement) timePerExecution(kind string) time.Duration {
	return m.used[kind] / time.Duration(m.n)
}

// totalPerExecution is the processor time of one execution in all processes.
func (m *measurement) totalPerExecution() (all time.Duration) {
	for _, used := range m.used {
		all += used
	}
	return all / time.Duration(m.n)
}

// meter reads the figures at its start; newMeasurement returns what was used since.
type meter struct {
	db   *pgx.Conn
	used map[string]time.Duration
	wal  int64
}

func startMeter(ctx context.Context, db *pgx.Conn) (*meter, error) {
	m := &meter{db: db}
	if err := m.readWALPosition(ctx, &m.wal); err != nil {
		return nil, err
	}
	var err error
	m.used, err = processorTimes()
	return m, err
}

func (m *meter) readWALPosition(ctx context.Context, at *int64) error {
	return m.db.QueryRow(ctx, "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").Scan(at)
}

func (m *meter) newMeasurement(ctx context.Context, way string, n int) (*measurement, error) {
	used, err := processorTimes()
	if err != nil {
		return nil, err
	}
	for kind := range used {
		used[kind] -= m.used[kind]
	}
	var wal int64
	err = m.readWALPosition(ctx, &wal)
	return &measurement{way: way, n: n, used: used, wal: wal - m.wal}, err
}
