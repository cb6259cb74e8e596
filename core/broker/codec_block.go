package broker

import (
	"encoding/json"
	"errors"
	"fmt"
)

// This file writes and reads blocks: messages of several dispatches (docs/queues.md, "Blocks").
const (
	// VersionBlock is the version of a block: several dispatches in one message. A worker reports in its
	// heartbeats that it reads blocks; other workers get one dispatch a message.
	VersionBlock = 2
	// MaxBlock bounds the total Length of the dispatches in a block, in bytes, so that large parameters do
	// not make a large message. A longer dispatch is sent alone.
	MaxBlock = 128 << 10
	// MaxDispatches is the largest number of dispatches in a block, for writing and for reading.
	MaxDispatches = 1000
)

// Length estimates the size of the dispatch in a block, in bytes. The estimate tends to be too high.
func (d *Dispatch) Length() int {
	const numbersAndNames = 256
	return numbersAndNames + 2*(len(d.Action.Ref)+len(d.Action.Runtime)+len(d.Action.Entrypoint)) + len(d.Parameters)
}

func tooMany(n int) error {
	return fieldError("payload.dispatches", "are %d, more than %d", n, MaxDispatches)
}

func encodeBlock(ds []Dispatch) (*wirePayload, error) {
	if len(ds) > MaxDispatches {
		return nil, tooMany(len(ds))
	}
	worker, incarnation := int64(ds[0].Worker), int64(ds[0].Incarnation)
	parts := make([]json.RawMessage, len(ds))
	for i := range ds {
		d, err := encodeDispatch(&ds[i])
		switch {
		case err != nil:
			return nil, fmt.Errorf("dispatch %d of the block: %w", i+1, err)
		case *d.Worker != worker || *d.Incarnation != incarnation:
			return nil, fieldError("payload.dispatches", "are for several incarnations")
		}
		d.Worker, d.Incarnation = nil, nil
		if parts[i], err = writeJSON(&d); err != nil {
			return nil, err
		}
	}
	return &wirePayload{wireDispatch: wireDispatch{Worker: &worker, Incarnation: &incarnation}, Dispatches: &parts}, nil
}

// decodeBlock reads the dispatches of a block. Dispatches that can't be read are in unread and do not
// affect the others. If none can be read, err is the reason of the first.
func (w *wirePayload) decodeBlock() (ds []Dispatch, unread []UnreadDispatch, err error) {
	if w.Dispatches == nil || len(*w.Dispatches) == 0 {
		return nil, nil, missingField("payload.dispatches")
	}
	if n := len(*w.Dispatches); n > MaxDispatches {
		return nil, nil, tooMany(n)
	}
	ds = make([]Dispatch, 0, len(*w.Dispatches))
	for i, body := range *w.Dispatches {
		var one wireDispatch
		var d Dispatch
		err := json.Unmarshal(body, &one)
		if err != nil {
			err = inWords(err)
		} else {
			one.Worker, one.Incarnation = w.Worker, w.Incarnation
			err = one.decodeDispatch(&d)
		}
		if err != nil {
			unread = append(unread, UnreadDispatch{fmt.Sprintf("dispatch %d of the block: %v", i+1, err), body})
			continue
		}
		ds = append(ds, d)
	}
	if len(ds) == 0 {
		return nil, nil, errors.New(unread[0].Why)
	}
	return ds, unread, nil
}
