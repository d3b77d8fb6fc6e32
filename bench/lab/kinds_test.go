package lab

import "testing"

// TestFaultTable: each kind of fault has a whole row, and a name of its own.
func TestFaultTable(t *testing.T) {
	names := make(map[string]bool)
	for k := range faultKinds {
		row := &faultTable[k]
		if row.name == "" || names[row.name] || row.needs == 0 || row.nodes == 0 || row.do == nil || row.what == "" ||
			row.heals == "" {
			t.Errorf("kind %d: %q is not whole, or not one of its kind", k, row.name)
		}
		names[row.name] = true
		if network := row.network != (faultTable[killOne].network); network != (row.between != nil) {
			t.Errorf("%s is about the network: %v, and says between which nodes: %v", row.name, network,
				row.between != nil)
		}
	}
}
