package web

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"karpenter/internal/explain"
	"karpenter/internal/ledger"
)

// begin waits for its turn with something that costs; it is false if the reader does not wait any longer.
func (s *Server) begin(r *http.Request) bool {
	select {
	case s.heavy <- struct{}{}:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (s *Server) end() { <-s.heavy }

// explain answers why something is as it is.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	if !s.begin(r) {
		return
	}
	defer s.end()
	c, kind, name := s.src.Explain(), r.PathValue("kind"), r.PathValue("name")
	if c == nil {
		refuse(w, http.StatusServiceUnavailable, "the controller has not seen the cluster yet; ask again in a moment")
		return
	}
	a, err := ask(c, kind, name, r.FormValue("namespace"))
	var missing *explain.NotFound
	switch {
	case errors.As(err, &missing):
		refuse(w, http.StatusNotFound, err.Error())
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
	default:
		answer(w, r, a.Document(""))
	}
}

func ask(c *explain.Cluster, kind, name, namespace string) (*explain.Answer, error) {
	switch kind {
	case "pod":
		return c.Pod(namespace, name)
	case "node":
		return c.Node(name)
	case "nodeclaim":
		return c.Claim(name)
	case "nodepool":
		return c.Pool(name)
	case "move":
		return c.Move(name)
	}
	return nil, fmt.Errorf("%q cannot be explained: ask about a pod, node, nodeclaim, nodepool or move", kind)
}

// recording answers with everything that a decision would be made from now.
func (s *Server) recording(w http.ResponseWriter, r *http.Request) {
	if !s.begin(r) {
		return
	}
	defer s.end()
	rec, err := s.src.Recording("")
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	s.record(w, r, rec)
}

// recordingOf answers with what a decision was made from.
func (s *Server) recordingOf(w http.ResponseWriter, r *http.Request) {
	e := s.entry(w, r)
	if e == nil {
		return
	}
	if e.Input == "" {
		refuse(w, http.StatusNotFound, fmt.Sprintf("decision %d has no recording", e.ID))
		return
	}
	if !s.begin(r) {
		return
	}
	defer s.end()
	rec, err := s.src.Recording(e.Input)
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	s.record(w, r, rec)
}

func (s *Server) record(w http.ResponseWriter, r *http.Request, rec *ledger.Recording) {
	var b bytes.Buffer
	if err := rec.Write(&b); err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	write(w, r, b.Bytes())
}
