package pages

import "testing"

// New rehearses the pages of a brand alone: a server has many sets of the built-in ones,
// one for each realm.
func TestBuiltInPagesPassTheRehearsal(t *testing.T) {
	s, err := New(Options{Name: "Example", BasePath: "/base"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.rehearse(brand{}); err != nil {
		t.Error(err)
	}
}
