package operator

import (
	"context"
	"time"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/meter"
)

// metered is a provider whose calls are counted and timed (O42, O43) on behalf of one controller.
type metered struct {
	cloud.Provider
	set        *meter.Set
	controller string
	now        func() time.Time
}

// Launch implements cloud.Launcher.
func (m metered) Launch(ctx context.Context, batch cloud.Batch) []cloud.Result {
	defer m.time("Create")()
	results := m.Provider.Launch(ctx, batch)
	for _, r := range results {
		m.count("Create", r.Err)
	}
	return results
}

// Get implements cloud.Fleet.
func (m metered) Get(ctx context.Context, id string) (*cloud.Instance, error) {
	defer m.time("Get")()
	found, err := m.Provider.Get(ctx, id)
	m.count("Get", err)
	return found, err
}

// List implements cloud.Fleet.
func (m metered) List(ctx context.Context) ([]*cloud.Instance, error) {
	defer m.time("List")()
	found, err := m.Provider.List(ctx)
	m.count("List", err)
	return found, err
}

// Delete implements cloud.Fleet.
func (m metered) Delete(ctx context.Context, id string) error {
	defer m.time("Delete")()
	err := m.Provider.Delete(ctx, id)
	m.count("Delete", err)
	return err
}

// Reboot implements cloud.Rebooter.
func (m metered) Reboot(ctx context.Context, claim *karpv1.NodeClaim, operation string) error {
	defer m.time("Reboot")()
	err := m.Provider.Reboot(ctx, claim, operation)
	m.count("Reboot", err)
	return err
}

// Drifted implements cloud.Judge.
func (m metered) Drifted(ctx context.Context, claim *karpv1.NodeClaim) (string, error) {
	defer m.time("IsDrifted")()
	reason, err := m.Provider.Drifted(ctx, claim)
	m.count("IsDrifted", err)
	return reason, err
}

func (m metered) time(method string) func() {
	begin := m.now()
	return func() { m.set.Observe(meter.CloudDuration, m.now().Sub(begin).Seconds(), m.labels(method)...) }
}

func (m metered) count(method string, err error) {
	if err != nil {
		m.set.Add(meter.CloudErrors, 1, append(m.labels(method), "error", errorLabel(err))...)
	}
}

func (m metered) labels(method string) []string {
	return []string{"controller", m.controller, "method", method, "provider", m.Name()}
}

// errorLabel is the class of an error in the words that dashboards know.
func errorLabel(err error) string {
	switch {
	case cloud.ClassOf(err) == cloud.NotFound:
		return "NodeClaimNotFoundError"
	case cloud.ClassOf(err) == cloud.NoCapacity:
		return "InsufficientCapacityError"
	case cloud.ClassOf(err) == cloud.NotReady:
		return "NodeClassNotReadyError"
	}
	return ""
}
