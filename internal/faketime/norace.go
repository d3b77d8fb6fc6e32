//go:build !race

package faketime

const raceDetector = false
