package fault

// This file holds the common parts of faults that strike a server.

// brokerStruck is a fault of the broker that has no fields.
type brokerStruck struct{}

// Read implements Fault.
func (brokerStruck) Read(*Reader) {}

// Strikes implements Fault.
func (brokerStruck) Strikes() Strikes { return Strikes{Target: Broker} }

// databaseStruck is a fault of the database that has no fields.
type databaseStruck struct{}

// Read implements Fault.
func (databaseStruck) Read(*Reader) {}

// Strikes implements Fault.
func (databaseStruck) Strikes() Strikes { return Strikes{Target: Database} }
