package restore

// OnStep has f called before each step of the replacement; its error ends it
// there, as a crash would.
func (r *Replacement) OnStep(f func(name string) error) { r.step = f }
