package web

import (
	"net/http"

	"karpenter/internal/model"
)

// costs answers with what namespaces and workloads cost. It is worked out when somebody asks: it costs a look at every pod.
func (s *Server) costs(w http.ResponseWriter, r *http.Request) {
	v := s.src.View()
	if v == nil {
		refuse(w, http.StatusServiceUnavailable, "the controller has not seen the cluster yet; ask again in a moment")
		return
	}
	if !s.begin(r) {
		return
	}
	defer s.end()
	answer(w, r, model.NewCosts(v, s.src.Now()))
}
