package moving

import "github.com/mintage/mintage/internal/store"

// Plan is plan, and returns the name of the step.
func Plan(source, destination store.Migration, empty bool, from, to string) (string, error) {
	s, err := plan(source, destination, empty, from, to)
	return map[step]string{begin: "begin", claim: "claim", open: "open", nothing: "nothing"}[s], err
}

// SmallBatches makes batches small, so that there are many.
func SmallBatches() { batchRows = 100 }
