package web

// LookEvery is what a change may have to wait before a stream sees it.
const LookEvery = lookEvery

// LetGo is how long after the last reader the model is kept.
const LetGo = letGo

// Tend has a server do what it does while nobody asks, and says how many nodes it keeps a model of.
func Tend(s *Server) int {
	s.hub.tend()
	return len(s.hub.nodes)
}
