package restore

// OnStep makes r call f before each step of the replacement; an error ends it there, as a
// crash would.
func (r *Replacement) OnStep(f func(name string) error) { r.step = f }
