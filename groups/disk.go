package groups

import (
	"log/slog"
	"os"
)

// lastWord ends the process: something was lost that everything rests on, and to
// go on would be to acknowledge what is not durable. What was acknowledged is
// safe: a restart finds it.
func lastWord(log *slog.Logger, err error) { new(Config).lastWord(log, err) }

// lastWord ends the process, or what Fatal ends instead.
func (c *Config) lastWord(log *slog.Logger, err error) {
	if c.Fatal != nil {
		c.Fatal(err)
		return
	}
	log.Error("stopping: storage failed, nothing more can be made durable; acknowledged state is safe, fix the cause and start again",
		"error", err)
	exit(3)
}

// exit is replaced by tests.
var exit = os.Exit
