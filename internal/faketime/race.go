//go:build race

package faketime

const raceDetector = true
