package robust

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// quiet drops what a server says of connections that were cut: that is what they are for.
var quiet = log.New(io.Discard, "", 0)

type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

func connOf(r *http.Request) net.Conn {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	return conn
}

// peers finds out which process is at the other end of a connection. Linux says whose a socket is.
type peers struct {
	mu    sync.Mutex
	known map[net.Conn]string
}

// of is the name of the process that has opened a connection to here, "" for none of those given.
func (p *peers) of(conn net.Conn, pids map[string]int) string {
	if conn == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if name, ok := p.known[conn]; ok {
		return name
	}
	inode := inodeOf(conn.RemoteAddr().(*net.TCPAddr), conn.LocalAddr().(*net.TCPAddr))
	for name, pid := range pids {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil || inode == "" {
			continue
		}
		for _, file := range files {
			if to, err := os.Readlink(file); err == nil && to == "socket:["+inode+"]" {
				if p.known == nil {
					p.known = map[net.Conn]string{}
				}
				p.known[conn] = name
				return name
			}
		}
	}
	return ""
}

// inodeOf is the number of the socket that is connected from one address of this computer to another.
func inodeOf(from, to *net.TCPAddr) string {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	written := func(at *net.TCPAddr) string {
		ip := at.IP.To4()
		return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], at.Port)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == written(from) && f[2] == written(to) {
			return f[9]
		}
	}
	return ""
}
