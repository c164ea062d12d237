package server

// Paths is every path at which an endpoint is, and its methods: none for any.
func (s *Server) Paths() map[string][]string {
	all := map[string][]string{}
	for path, rt := range s.patterns() {
		all[path] = rt.methods
	}
	return all
}
