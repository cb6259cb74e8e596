package simstore

import (
	"fmt"
	"slices"
	"strings"

	"handoff/core/store"
	"handoff/sim/simnet"
)

// Another program's session may lock a table. A lock in SHARE mode (an index build) delays every call that
// writes the table. A lock in ACCESS EXCLUSIVE mode (vacuum full) also delays calls that read it. The real
// store waits for the lock timeout and then returns a retriable error, which the model returns immediately.

// Tables are the tables of PostgreSQL that a call locks, separated by spaces. A conformance test measures them.
type Tables struct{ Reads, Writes string }

// TablesOf returns the tables that a method of store.Store locks, or none for the steps of planted mutants.
func TablesOf(call string) Tables { return tablesOf[call] }

var tablesOf = map[string]Tables{ //detlint:ok a constant table, never written
	"Actions":              {Reads: "action"},
	"Cancel":               {Writes: "execution_record execution_unhandled execution_work transition_group"},
	"Chain":                {Reads: "execution_record execution_work"},
	"Changes":              {Reads: "execution_record execution_transition_gone transition_group"},
	"Claim":                {Reads: "execution_record worker_incarnation", Writes: "execution_work transition_group"},
	"ClaimForScheduling":   {Reads: "action execution_record", Writes: "concurrency_slot execution_work transition_group"},
	"Create":               {Reads: "action worker", Writes: "execution_record execution_work transition_group"},
	"DeadLetter":           {Reads: "dead_letter"},
	"DeadLetters":          {Reads: "dead_letter"},
	"DiscardDeadLetters":   {Writes: "dead_letter"},
	"Dispatch":             {Reads: "execution_record worker worker_incarnation", Writes: "execution_work transition_group"},
	"DispatchDue":          {Reads: "action concurrency_slot execution_record worker worker_incarnation", Writes: "execution_work transition_group"},
	"Dispatched":           {Reads: "execution_record execution_work"},
	"Executions":           {Reads: "execution_record execution_work"},
	"Find":                 {Reads: "execution_record execution_unhandled execution_work worker_incarnation"},
	"FindWorkers":          {Reads: "execution_work worker worker_expiry worker_incarnation"},
	"Finish":               {Writes: "execution_record execution_unhandled execution_work transition_group"},
	"ForgetKeys":           {Reads: "execution_work", Writes: "execution_record"},
	"FreeSlots":            {Reads: "execution_record execution_work", Writes: "concurrency_slot"},
	"Heartbeat":            {Reads: "execution_work worker", Writes: "worker_incarnation"},
	"KeepRefusedResult":    {Writes: "refused_result"},
	"List":                 {Reads: "execution_record execution_work"},
	"MarkPublished":        {Writes: "execution_work transition_group"},
	"MarkQueuesDeleted":    {Reads: "execution_work worker_incarnation", Writes: "worker"},
	"Newest":               {Reads: "worker"},
	"Observations":         {Reads: "observation"},
	"ObserveReclaims":      {Reads: "execution_work worker_incarnation", Writes: "observation"},
	"ObserveWorkers":       {Reads: "worker worker_incarnation", Writes: "observation"},
	"Orchestrate":          {Writes: "concurrency_slot execution_record execution_unhandled execution_work transition_group"},
	"Park":                 {Writes: "concurrency_slot execution_record execution_unhandled execution_work transition_group"},
	"Purge":                {Reads: "execution_work", Writes: "execution_record execution_transition_gone refused_result transition_group worker worker_incarnation"},
	"PurgeDeadLetters":     {Writes: "dead_letter"},
	"PurgeObservations":    {Writes: "observation"},
	"PutActions":           {Writes: "action concurrency_slot"},
	"Reap":                 {Writes: "worker_incarnation"},
	"Reclaim":              {Reads: "worker_incarnation", Writes: "concurrency_slot execution_record execution_unhandled execution_work transition_group worker_expiry"},
	"Register":             {Writes: "worker worker_incarnation"},
	"Release":              {Reads: "execution_record worker worker_incarnation", Writes: "concurrency_slot execution_work transition_group"},
	"SetCordon":            {Writes: "worker worker_incarnation"},
	"SetLifecycle":         {Reads: "worker", Writes: "worker_incarnation"},
	"SettleChildren":       {Writes: "execution_record execution_unhandled execution_work transition_group"},
	"SettleDeadLetter":     {Writes: "dead_letter"},
	"StoreDeadLetters":     {Writes: "dead_letter"},
	"SummarizeDeadLetters": {Reads: "dead_letter"},
	"Survey":               {Reads: "action concurrency_slot dead_letter execution_record execution_unhandled execution_work worker_incarnation"},
	"Transitions":          {Reads: "transition_group"},
	"Workers":              {Reads: "execution_work worker worker_expiry worker_incarnation"},
}

// lockedTable is a table that another session holds.
type lockedTable struct {
	fault, table string
	exclusive    bool
}

// LockTable locks a table until free is called, for the fault of that name. exclusive also blocks reads.
func (da *Database) LockTable(fault, table string, exclusive bool) (free func()) {
	held := lockedTable{fault, table, exclusive}
	da.tables = append(da.tables, held)
	return func() { da.tables = slices.DeleteFunc(da.tables, func(l lockedTable) bool { return l == held }) }
}

// refuseIfTableLocked returns the error of a call that needs a table that another session has locked, or nil
// if the call needs no locked table.
func (da *Database) refuseIfTableLocked(process, call string) error {
	needs := tablesOf[call]
	for _, l := range da.tables {
		if containsName(needs.Writes, l.table) || l.exclusive && containsName(needs.Reads, l.table) {
			da.net.Touch(simnet.Touched{Fault: l.fault, Process: process})
			return fmt.Errorf("%w: canceling statement due to lock timeout (55P03): %s is locked by another session", store.ErrUnavailable, l.table)
		}
	}
	return nil
}

func containsName(names, name string) bool { return slices.Contains(strings.Fields(names), name) }
