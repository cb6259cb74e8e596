package fault

// This file holds the common parts of faults that strike a server.

// brokerFault is a fault of the broker without fields.
type brokerFault struct{}

// Read implements Fault.
func (brokerFault) Read(*Reader) {}

// Strikes implements Fault.
func (brokerFault) Strikes() Strikes { return Strikes{Target: Broker} }

// databaseFault is a fault of the database without fields.
type databaseFault struct{}

// Read implements Fault.
func (databaseFault) Read(*Reader) {}

// Strikes implements Fault.
func (databaseFault) Strikes() Strikes { return Strikes{Target: Database} }
