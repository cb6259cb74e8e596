//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// deafClients is how many clients ask for the changes and read nothing. deafRows is how many
// changes each is sent.
const (
	deafClients = 100
	deafRows    = 30_000
)

// deafStreams fills the places of the stream of changes with clients that don't read.
func deafStreams(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	if err := s.action(ctx, "attack.changes", unoffered, "none", 60); err != nil {
		return err
	}
	if _, err := s.db.Exec(ctx, `insert into execution (action, action_ref, runtime, entrypoint, max_retries, parameters, due_at, created, written_by)
		select id, ref, runtime, entrypoint, 0, '{}', now() + interval '1 day', now(), 'api' from action, generate_series(1, $1) where ref = 'attack.changes'`, deafRows); err != nil {
		return err
	}
	p := pid(s.executor)
	if err := resetPeak(p); err != nil {
		return err
	}
	memory := memoryOf(p, "VmRSS")
	began := time.Now()
	open, closeAll, err := s.occupy(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	r.tell("clients that don't read: streams open", "%d of %d", open, deafClients)
	a := s.get(ctx, "/api/v1/executions?limit=1")
	r.duration(fmt.Sprintf("an ordinary request meanwhile (%v)", a), a.took, answerWithin)
	freed := time.Duration(-1)
	if until(ctx, 70*time.Second, func() bool { pause(ctx, 300*time.Millisecond); return s.streamed(ctx) }) {
		freed = time.Since(began)
	}
	r.expect("a client that reads gets a place after", shownDuration(freed), "≤ "+shownDuration(placesFree), freed >= 0 && freed <= placesFree)
	r.memory("memory added", memoryOf(p, "VmHWM")-memory, crowdMemory)
	return nil
}

// occupy opens the streams and returns how many were accepted.
func (s *system) occupy(ctx context.Context) (open int, closeAll func(), err error) {
	var all []net.Conn
	closeAll = func() {
		for _, c := range all {
			_ = c.Close()
		}
	}
	host := strings.TrimPrefix(s.api, "http://")
	for range deafClients {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
		if err != nil {
			return open, closeAll, err
		}
		all = append(all, conn)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4096) // the buffer of a client that does not read
		}
		if _, err := fmt.Fprintf(conn, "GET /api/v1/changes?after=0 HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
			return open, closeAll, err
		}
	}
	for _, conn := range all {
		_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second)) // only the head is read
		if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err == nil && strings.Contains(line, " 200 ") {
			open++
		}
	}
	return open, closeAll, nil
}

// streamed says whether a client that reads is served.
func (s *system) streamed(ctx context.Context) bool {
	within, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(within, http.MethodGet, s.api+"/api/v1/changes", http.NoBody)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}
