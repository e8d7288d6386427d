package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"karpenter/internal/ledger"
)

const (
	defaultDecisions = 200
	maxDecisions     = 10 * ledger.DefaultSize
)

// decisions answers with entries of the ledger, the newest first.
func (s *Server) decisions(w http.ResponseWriter, r *http.Request) {
	q, err := queryOf(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	list := s.src.Ledger().List(q)
	var newest uint64
	if last := s.src.Ledger().List(ledger.Query{Limit: 1}); len(last) > 0 {
		newest = last[0].ID
	}
	answer(w, r, ledger.NewDecisions(list, newest))
}

func queryOf(r *http.Request) (ledger.Query, error) {
	q := ledger.Query{Limit: defaultDecisions}
	for _, kinds := range r.URL.Query()["kind"] {
		for kind := range strings.SplitSeq(kinds, ",") {
			if kind != "" {
				q.Kinds = append(q.Kinds, ledger.Kind(kind))
			}
		}
	}
	if about := r.FormValue("about"); about != "" {
		ref, err := refOf(about)
		if err != nil {
			return q, err
		}
		q.About = &ref
	}
	if since := r.FormValue("since"); since != "" {
		id, err := strconv.ParseUint(since, 10, 64)
		if err != nil {
			return q, fmt.Errorf("since=%q: give the id of a decision, a whole number", since)
		}
		q.Since = id
	}
	if limit := r.FormValue("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > maxDecisions {
			return q, fmt.Errorf("limit=%q: give a whole number from 1 to %d", limit, maxDecisions)
		}
		q.Limit = n
	}
	return q, nil
}

// refOf reads Kind/name, or Kind/namespace/name.
func refOf(text string) (ledger.Ref, error) {
	parts := strings.Split(text, "/")
	switch len(parts) {
	case 2:
		return ledger.Ref{Kind: parts[0], Name: parts[1]}, nil
	case 3:
		return ledger.Ref{Kind: parts[0], Namespace: parts[1], Name: parts[2]}, nil
	}
	return ledger.Ref{}, fmt.Errorf("about=%q: write Pod/NAMESPACE/NAME, Node/NAME, NodeClaim/NAME or NodePool/NAME", text)
}

// entry finds the decision that a request names, or answers that there is none.
func (s *Server) entry(w http.ResponseWriter, r *http.Request) *ledger.Entry {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("decision %q: give its id, a whole number", r.PathValue("id")))
		return nil
	}
	e := s.src.Ledger().Get(id)
	if e == nil {
		refuse(w, http.StatusNotFound, fmt.Sprintf("decision %d is not there: it was never made, or is too long ago", id))
	}
	return e
}

func (s *Server) decision(w http.ResponseWriter, r *http.Request) {
	if e := s.entry(w, r); e != nil {
		answer(w, r, e.Document())
	}
}
