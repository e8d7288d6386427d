package operator

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// patientLock is a lease that is not given up because the API server is away. Nothing is written meanwhile, because the fence sees that
// the lease is not renewed. When the API server is back, either nobody has taken the lease, and everything goes on, or somebody has, and this
// process ends.
type patientLock struct {
	resourcelock.Interface
	log *slog.Logger
	// held says that the lease was ours when it was last seen, away that it could not be renewed since. Only the elector's goroutine
	// comes here.
	held, away bool
}

// Get implements resourcelock.Interface.
func (l *patientLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.held = record.HolderIdentity == l.Identity()
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *patientLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	l.held = err == nil
	return err
}

// Update implements resourcelock.Interface.
func (l *patientLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	renews := record.HolderIdentity == l.Identity()
	switch {
	case err == nil:
		if l.away {
			l.log.Info("renewed the lease again")
		}
		l.held, l.away = renews, false
	case l.held && renews && unreachable(err) && !errors.Is(ctx.Err(), context.Canceled):
		if !l.away {
			l.log.Warn("cannot renew the lease; nothing is written until that is possible", "error", err)
		}
		l.away = true
		return nil
	}
	return err
}

// unreachable says of an error that the API server has not decided anything: it is not there, or busy.
func unreachable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}
