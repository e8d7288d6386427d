// Package main is a minimal provider, and the controller with it: docs/design/provider.md builds it up step by step. Its cloud is a
// folder that has a file for each server that runs.
package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Server is what the cloud knows of a server.
type Server struct {
	Name    string    `json:"-"`
	Size    string    `json:"size"`
	Image   string    `json:"image"`
	Started time.Time `json:"started"`
	// Labels are the caller's own.
	Labels map[string]string `json:"labels"`
}

// ErrFull says that the rack has no room for another server.
var ErrFull = errors.New("the rack is full")

// Rack is the cloud. Another process sees what this one has made.
type Rack struct {
	Dir string
	// Room is how many servers there is room for.
	Room func() int
}

// Start starts a server of a name that nobody has used yet. The server that has the name is returned if there is one: whoever
// repeats a call of which the answer was lost gets what it made.
func (r *Rack) Start(m Server) (Server, error) {
	if found, err := r.Find(m.Name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	all, err := r.List()
	if err != nil {
		return Server{}, err
	}
	if len(all) >= r.Room() {
		return Server{}, ErrFull
	}
	text, err := json.Marshal(m)
	if err != nil {
		return Server{}, err
	}
	// A file is written beside its place and then linked: it is there with all of its content or not at all, and only once.
	draft, err := os.CreateTemp(r.Dir, "draft")
	if err != nil {
		return Server{}, err
	}
	defer os.Remove(draft.Name())
	if _, err := draft.Write(text); err != nil {
		return Server{}, err
	}
	if err := draft.Close(); err != nil {
		return Server{}, err
	}
	if err := os.Link(draft.Name(), r.path(m.Name)); err != nil && !errors.Is(err, fs.ErrExist) {
		return Server{}, err
	}
	return r.Find(m.Name)
}

// Find returns one server, or fs.ErrNotExist.
func (r *Rack) Find(name string) (Server, error) {
	text, err := os.ReadFile(r.path(name))
	if err != nil {
		return Server{}, err
	}
	m := Server{Name: name}
	return m, json.Unmarshal(text, &m)
}

// List returns all servers, oldest first.
func (r *Rack) List() ([]Server, error) {
	paths, err := filepath.Glob(r.path("*"))
	if err != nil {
		return nil, err
	}
	var all []Server
	for _, path := range paths {
		m, err := r.Find(strings.TrimSuffix(filepath.Base(path), ".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Server) int { return a.Started.Compare(b.Started) })
	return all, nil
}

// Stop ends a server, or returns fs.ErrNotExist.
func (r *Rack) Stop(name string) error { return os.Remove(r.path(name)) }

func (r *Rack) path(name string) string { return filepath.Join(r.Dir, name+".json") }
