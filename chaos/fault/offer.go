package fault

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Simulated is the set of interfaces that the simulated world offers: all of them.
type Simulated interface {
	Processes
	Machines
	Twins
	Links
	BrokerServer
	BrokerAlarm
	Queues
	ConsumerCancelling
	StuckQueues
	ConsumerTimeouts
	DeadLettering
	Messages
	Publisher
	Deafness
	Muteness
	Sickness
	Fleet
	DatabaseServer
	DatabaseReadOnly
	DatabaseDemotion
	DatabaseSlow
	DatabaseFailures
	DatabaseReadFailures
	DatabaseFull
	DatabaseConnections
	DatabaseHanging
	DatabaseRewinding
	SlotEdits
	RowEdits
	Strangers
	Clocks
}

// Live is the set of interfaces that the world of real daemons offers.
type Live interface {
	Processes
	Twins
	Links
	BrokerServer
	BrokerAlarm
	Queues
	StuckQueues
	ConsumerTimeouts
	DeadLettering
	Messages
	Publisher
	Deafness
	Muteness
	Sickness
	Fleet
	DatabaseServer
	DatabaseReadOnly
	DatabaseDemotion
	DatabaseSlow
	DatabaseFailures
	DatabaseFull
	DatabaseConnections
	DatabaseHanging
	Strangers
}

// worldInterface is one of the interfaces that worlds offer.
type worldInterface struct {
	name string
	of   reflect.Type
	// lacking explains why a world without the interface can't run its faults.
	lacking string
}

// worldInterfaces lists the interfaces of world.go.
func worldInterfaces() []worldInterface {
	const shared = "its processes and servers share one machine and its clocks"
	return []worldInterface{
		{"Machines", reflect.TypeFor[Machines](), shared},
		{"Clocks", reflect.TypeFor[Clocks](), shared},
		{"ConsumerCancelling", reflect.TypeFor[ConsumerCancelling](), "RabbitMQ cancels the consumers of a queue only when the queue goes or moves; delete_queue does that"},
		{"Twins", reflect.TypeFor[Twins](), "it can't start a second process under a worker's name"},
		{"Links", reflect.TypeFor[Links](), "nothing stands on the links between its processes and servers"},
		{"BrokerServer", reflect.TypeFor[BrokerServer](), "it can't stop its broker"},
		{"BrokerAlarm", reflect.TypeFor[BrokerAlarm](), "it can't raise an alarm of its broker"},
		{"Queues", reflect.TypeFor[Queues](), "it can't change the queues of its broker"},
		{"StuckQueues", reflect.TypeFor[StuckQueues](), "it can't suspend the process of a queue"},
		{"ConsumerTimeouts", reflect.TypeFor[ConsumerTimeouts](), "it can't change its broker's consumer timeout"},
		{"DeadLettering", reflect.TypeFor[DeadLettering](), "it can't stop its broker's dead lettering"},
		{"Messages", reflect.TypeFor[Messages](), "nothing reads the messages on their way to its broker"},
		{"Publisher", reflect.TypeFor[Publisher](), "it can't publish messages of its own"},
		{"Deafness", reflect.TypeFor[Deafness](), "it can't keep back what its broker delivers"},
		{"Muteness", reflect.TypeFor[Muteness](), "it can't keep back heartbeats"},
		{"Sickness", reflect.TypeFor[Sickness](), "it can't keep a machine from starting actions"},
		{"Fleet", reflect.TypeFor[Fleet](), "it has no operator who cordons and drains workers"},
		{"DatabaseServer", reflect.TypeFor[DatabaseServer](), "it can't stop its database"},
		{"DatabaseReadOnly", reflect.TypeFor[DatabaseReadOnly](), "it can't make its database refuse writes"},
		{"DatabaseDemotion", reflect.TypeFor[DatabaseDemotion](), "it can't demote its database under connections that stay"},
		{"DatabaseSlow", reflect.TypeFor[DatabaseSlow](), "it can't slow its database down"},
		{"DatabaseFailures", reflect.TypeFor[DatabaseFailures](), "it can't make writes of its database fail"},
		{"DatabaseReadFailures", reflect.TypeFor[DatabaseReadFailures](), "it can't make reads of its database fail"},
		{"DatabaseFull", reflect.TypeFor[DatabaseFull](), "it can't fill its database's disk"},
		{"DatabaseConnections", reflect.TypeFor[DatabaseConnections](), "it can't make its database refuse connections"},
		{"DatabaseHanging", reflect.TypeFor[DatabaseHanging](), "it can't keep its database from answering"},
		{"DatabaseRewinding", reflect.TypeFor[DatabaseRewinding](), "its triggers write the history into the database that would forget it, and it has no standby"},
		{"SlotEdits", reflect.TypeFor[SlotEdits](), "nobody edits the rows of its database by hand"},
		{"RowEdits", reflect.TypeFor[RowEdits](), "its programs are all of one release, and no newer one writes"},
		{"Strangers", reflect.TypeFor[Strangers](), "nobody else has a session in its database"},
		{"Processes", reflect.TypeFor[Processes](), "it can't start and end processes"},
	}
}

// Lacks returns why a world can't run the kind, or "" if it can. offers is an interface type such as Live, or
// the type of the world itself.
func (k *Kind) Lacks(offers reflect.Type) string {
	if offers.Implements(k.needs) {
		return ""
	}
	for _, p := range worldInterfaces() {
		if k.needs.Implements(p.of) && !offers.Implements(p.of) {
			return p.lacking
		}
	}
	return "it lacks " + missingMethods(k.needs, offers)
}

// missingMethods names an interface and those of its methods that a type lacks. It is for kinds registered
// outside this package, which may need interfaces of their own.
func missingMethods(needs, offers reflect.Type) string {
	var names []string
	for i := range needs.NumMethod() {
		name := needs.Method(i).Name
		if m, there := offers.MethodByName(name); !there || offers.Kind() == reflect.Interface && m.Type != needs.Method(i).Type {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return fmt.Sprintf("%v (%s)", needs, strings.Join(names, ", "))
}

// Needs reports whether the kind's interface includes every method of the interface type of.
func (k *Kind) Needs(of reflect.Type) bool { return k.needs.Implements(of) }
