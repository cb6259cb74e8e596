package fault

// This file holds the common parts of faults that strike a server.

// brokerFault is a broker fault that has no fields.
type brokerFault struct{}

// Read implements Fault.
func (brokerFault) Read(*Reader) {}

// Strikes implements Fault.
func (brokerFault) Strikes() Strikes { return Strikes{Target: Broker} }

// databaseFault is a database fault that has no fields.
type databaseFault struct{}

// Read implements Fault.
func (databaseFault) Read(*Reader) {}

// Strikes implements Fault.
func (databaseFault) Strikes() Strikes { return Strikes{Target: Database} }
