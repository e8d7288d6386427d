package plane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// portsFile remembers which ports a folder's programs had.
const portsFile = "ports.json"

func (p *ports) choose(dir string) error {
	found, err := Ports(dir, "etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
	if err != nil {
		return err
	}
	p.etcd, p.etcdPeer, p.apiserver, p.controllers, p.scheduler = found[0], found[1], found[2], found[3], found[4]
	return nil
}

// Ports finds a free loopback port for each name: the one that the name had last time in this folder, if it is still
// free, so that addresses which were handed out or stored go on being right.
func Ports(dir string, names ...string) ([]int, error) {
	listeners, err := listenAll(dir, names)
	found := make([]int, len(listeners))
	for i, listener := range listeners {
		found[i] = listener.Addr().(*net.TCPAddr).Port
		listener.Close()
	}
	return found, err
}

// Listen opens a port that is chosen as by Ports.
func Listen(dir, name string) (net.Listener, error) {
	listeners, err := listenAll(dir, []string{name})
	if err != nil {
		for _, listener := range listeners {
			listener.Close()
		}
		return nil, err
	}
	return listeners[0], nil
}

// portsMutex keeps two parts of one process from losing each other's ports.
var portsMutex sync.Mutex

// listenAll opens a port for each name and remembers them. Those that it returns with an error are open too.
func listenAll(dir string, names []string) ([]net.Listener, error) {
	portsMutex.Lock()
	defer portsMutex.Unlock()
	file := filepath.Join(dir, portsFile)
	known := map[string]int{}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the ports of an earlier run in %s: %w", file, err)
	}
	var listeners []net.Listener
	for _, name := range names {
		listener, err := listen(known[name])
		if err != nil {
			return listeners, fmt.Errorf("finding a free port for %s: %w", name, err)
		}
		listeners = append(listeners, listener)
		known[name] = listener.Addr().(*net.TCPAddr).Port
	}
	if data, err = json.Marshal(known); err != nil {
		return listeners, fmt.Errorf("remembering ports: %w", err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return listeners, fmt.Errorf("remembering ports: %w", err)
	}
	return listeners, nil
}

// New ports are of a range from which no operating system takes any by itself, neither for connections nor for who listens on any port: the
// child that shall have one binds it seconds later.
const firstPort, lastPort = 15000, 29999

// listen opens the port, or any free one where that is 0 or taken.
func listen(port int) (listener net.Listener, err error) {
	if port == 0 {
		port = anyPort()
	}
	for range 100 {
		if listener, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return listener, nil
		}
		port = anyPort()
	}
	return nil, err
}

func anyPort() int { return firstPort + rand.IntN(lastPort-firstPort+1) }
