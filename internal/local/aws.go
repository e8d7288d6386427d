package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"karpenter/internal/cloud/simaws"
	"karpenter/internal/local/plane"
)

const (
	// awsStateFile is where the AWS simulator is kept between runs.
	awsStateFile = "aws.json"
	// awsSaveEvery bounds what a crash of this process can lose. Saving costs some milliseconds per thousand instances.
	awsSaveEvery = 3 * time.Second
	// accessKey is the key that the controller signs with. Any key would do: the AWS simulator has no secrets.
	accessKey = "AKIAKARPENTERLOCAL00"
)

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// awsSim is an AWS simulator that is served on a loopback port and keeps its state in a file.
type awsSim struct {
	*simaws.Sim
	url, region string
	cluster     simaws.Cluster
	// system are the ids of the system nodes' instances.
	system []string

	file    string
	timing  simaws.Timing
	changed atomic.Bool
	server  *http.Server
	stop    context.CancelFunc
	running sync.WaitGroup
}

// awsOptions say what the AWS simulator is to know.
type awsOptions struct {
	dir, region string
	cluster     simaws.Cluster
	bootTime    time.Duration
	steadySpot  bool
	watcher     simaws.Watcher
}

// startAWS goes on with the AWS simulator that an earlier run left in the folder, or makes one.
func startAWS(ctx context.Context, opts awsOptions) (*awsSim, error) {
	listener, err := plane.Listen(opts.dir, "aws")
	if err != nil {
		return nil, err
	}
	a := &awsSim{
		url: "http://" + listener.Addr().String(), region: opts.region, cluster: opts.cluster,
		file: filepath.Join(opts.dir, awsStateFile), timing: bootTiming(opts.bootTime),
	}
	if a.Sim, err = simaws.New(simaws.Options{
		Clock: realClock{}, Seed: 1, Region: opts.region, Clusters: []simaws.Cluster{opts.cluster}, Queue: opts.cluster.Name,
		Timing: a.timing, SteadySpot: opts.steadySpot, Watcher: opts.watcher, OnCall: a.notice,
	}); err == nil {
		err = a.load()
	}
	if err == nil { // a loaded world knows the cluster under the address of the run before
		err = a.AddCluster(opts.region, opts.cluster)
	}
	if err != nil {
		listener.Close()
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	a.server = &http.Server{Handler: a.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = a.server.Serve(listener) }() // ends with ErrServerClosed
	a.running.Go(func() { a.Run(running) })
	a.running.Go(func() { a.saveOften(running) })
	return a, nil
}

// Freeze stops the world: from now on nothing happens in it by itself.
func (a *awsSim) Freeze() {
	a.stop()
	a.running.Wait()
}

// Close ends the AWS simulator and saves it.
func (a *awsSim) Close() error {
	_ = a.server.Close()
	return a.save()
}

// bootTiming divides the time from launch to registration, and keeps the rest as it is on AWS or, where nobody would
// like to wait for it, shorter.
func bootTiming(boot time.Duration) simaws.Timing {
	pending := min(boot/4, 5*time.Second)
	nothing := func(d time.Duration) time.Duration {
		if d <= 0 {
			return -1 // simaws takes 0 for its own default
		}
		return d
	}
	return simaws.Timing{
		Pending: nothing(pending), Join: nothing(boot - pending),
		ShuttingDown: nothing(min(boot, 10*time.Second)), Stopping: nothing(min(boot, 10*time.Second)), Reboot: nothing(boot),
	}
}

// atOnce runs a function in a world where instances boot without delay.
func (a *awsSim) atOnce(do func() error) error {
	a.SetTiming(bootTiming(0))
	defer a.SetTiming(a.timing)
	err := do()
	a.Tick()
	return err
}

// notice remembers that a call may have changed the world.
func (a *awsSim) notice(c simaws.Call) {
	for _, harmless := range []string{"Describe", "Get", "List", "Receive"} {
		if strings.HasPrefix(c.Action, harmless) {
			return
		}
	}
	a.changed.Store(true)
}

func (a *awsSim) saveOften(ctx context.Context) {
	ticker := time.NewTicker(awsSaveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if a.changed.Swap(false) {
				_ = a.save() // the next one, or the last, reports what is wrong with the folder
			}
		}
	}
}

func (a *awsSim) load() error {
	file, err := os.Open(a.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the saved AWS simulator: %w", err)
	}
	defer file.Close()
	if err := a.Load(file); err != nil {
		return fmt.Errorf("%s (--fresh drops it): %w", a.file, err)
	}
	return nil
}

// save replaces the file at once, so that a crash leaves the one before.
func (a *awsSim) save() error {
	file, err := os.CreateTemp(filepath.Dir(a.file), awsStateFile+".*")
	if err != nil {
		return fmt.Errorf("saving the AWS simulator: %w", err)
	}
	defer os.Remove(file.Name())
	if err := errors.Join(a.Save(file), file.Close()); err != nil {
		return fmt.Errorf("saving the AWS simulator: %w", err)
	}
	if err := os.Rename(file.Name(), a.file); err != nil {
		return fmt.Errorf("saving the AWS simulator: %w", err)
	}
	return nil
}
