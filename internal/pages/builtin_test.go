package pages

import "testing"

// New renders samples only for brands, because a server has many sets of the built-in
// pages, one for each realm.
func TestBuiltInPagesPassTheRehearsal(t *testing.T) {
	s, err := New(Options{Name: "Example", BasePath: "/base"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.rehearse(brand{}); err != nil {
		t.Error(err)
	}
}

// A server creates a set for each realm, at its start and at each reload: sets without a
// brand share what was parsed once.
func TestASetOfBuiltInPagesCostsLittle(t *testing.T) {
	made := testing.AllocsPerRun(10, func() {
		if _, err := New(Options{Name: "Example", BasePath: "/base"}); err != nil {
			t.Fatal(err)
		}
	})
	if made > 100 { // parsing the texts and templates takes 60,000
		t.Errorf("a set takes %.0f allocations", made)
	}
}
