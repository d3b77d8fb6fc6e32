package groups

import (
	"log/slog"
	"os"
)

// lastWord ends the process: something was lost that everything rests on, and to
// go on would be to acknowledge what is not durable. What was acknowledged is
// safe: a restart finds it.
func lastWord(log *slog.Logger, err error) {
	log.Error("stopping: storage failed, nothing more can be made durable; acknowledged state is safe, fix the cause and start again",
		"error", err)
	exit(3)
}

// exit is replaced by tests.
var exit = os.Exit
