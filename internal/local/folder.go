package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// marker is the file that says that a folder is one of ours, and that a running cluster holds a lock on.
const marker = ".karpenter-local"

// kind is what the folder of such a cluster is marked with: what it is started with that cannot be changed.
func (o *Options) kind() string {
	var kinds []string
	if o.NoKarpenter {
		kinds = append(kinds, "no-karpenter")
	}
	if o.Provider == ProviderClusterAPI {
		kinds = append(kinds, o.Provider)
	}
	if o.ManagementApart {
		kinds = append(kinds, "management")
	}
	return strings.Join(kinds, ",")
}

// claimFolder makes the folder of a cluster and holds it until the result is closed, so that two clusters never write
// into one. With fresh, what is in it is dropped; a folder with other things in it is never touched. kind is which cluster it is for:
// one does not become the other.
func claimFolder(dir string, fresh bool, kind string) (io.Closer, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("looking into %s: %w", dir, err)
	}
	name := filepath.Join(dir, marker)
	if _, err := os.Stat(name); err != nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s has things in it that are not of a local cluster: name another folder with --dir", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	lock, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claiming %s: %w", dir, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s is in use by another local cluster: stop that one, or name another folder with --dir", dir)
	}
	if fresh {
		for _, entry := range entries {
			if entry.Name() == marker {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
				lock.Close()
				return nil, fmt.Errorf("dropping the earlier cluster: %w", err)
			}
		}
	}
	if err := remember(lock, kind, fresh || len(entries) == 0); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s %w", dir, err)
	}
	return lock, nil
}

// remember writes into the marker which kind of cluster a folder is for, or compares it with what is there.
func remember(file *os.File, kind string, anew bool) error {
	if anew {
		if err := file.Truncate(0); err != nil {
			return fmt.Errorf("cannot be claimed: %w", err)
		}
		_, err := file.WriteString(kind)
		return err
	}
	had, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("cannot be claimed: %w", err)
	}
	if string(had) != kind {
		return errors.New("has a cluster in it that was started with other flags of --no-karpenter, --provider and --management-apart than now: say the same again, drop it with --fresh, or name another folder with --dir")
	}
	return nil
}
