package cloud

import (
	"context"
	"time"
)

// NoticeKind is what a cloud announces about instances. The values are those of the metric label message_type.
type NoticeKind string

// The kinds.
const (
	SpotInterrupted                NoticeKind = "spot_interrupted"
	RebalanceRecommendation        NoticeKind = "rebalance_recommendation"
	InstanceStopped                NoticeKind = "instance_stopped"
	InstanceTerminated             NoticeKind = "instance_terminated"
	CapacityReservationInterrupted NoticeKind = "capacity_reservation_interrupted"
	ScheduledChange                NoticeKind = "scheduled_change"
	// NoOp notices are none of ours.
	NoOp NoticeKind = "no_op"
)

// Notice is an announcement about instances. The instances it names may be anybody's: the receiver acts on its own only.
type Notice struct {
	// ID is the same for every copy of the announcement, which queues may deliver more than once.
	ID   string
	Kind NoticeKind
	// Instances are the ids of the instances, sorted.
	Instances []string
	// At is when the cloud made the announcement.
	At time.Time
	// NotBefore is when a scheduled change begins; zero where the notice is about now.
	NotBefore time.Time
}

// Message is an announcement as a queue delivers it.
type Message struct {
	Notice Notice
	// Err says why the text is no notice. Such a message is to be deleted, since no later attempt could read it.
	Err error
	// Sent is when the message was put into the queue.
	Sent time.Time
	// Receipt is the queue's own name for this delivery.
	Receipt string
}

// Inbox delivers announcements, each until it is deleted.
type Inbox interface {
	// Receive waits for messages for a while. It may return none.
	Receive(ctx context.Context) ([]Message, error)
	// Delete removes a message that has been dealt with.
	Delete(ctx context.Context, m Message) error
}

// AilmentKind is what is wrong with an instance. The values are those of the metric label category.
type AilmentKind string

// The kinds.
const (
	// InstanceStatus and SystemStatus are failed reachability checks: the instance is as good as gone.
	InstanceStatus AilmentKind = "InstanceStatus"
	SystemStatus   AilmentKind = "SystemStatus"
	// EventStatus is maintenance that the cloud has scheduled: the instance still works.
	EventStatus AilmentKind = "EventStatus"
)

// Ailment is something that the cloud says is wrong with an instance, which may be anybody's.
type Ailment struct {
	Instance string
	Kind     AilmentKind
	// Since is when a check began to fail; NotBefore when maintenance begins.
	Since, NotBefore time.Time
}

// Shift is a zone that the cluster has been shifted away from, so that nothing is launched there.
type Shift struct {
	// ZoneID is the zone's id, which unlike its name means the same place to everybody.
	ZoneID string
	Until  time.Time
}
