package load

// Namespaces is how many namespaces the paths lie in.
const Namespaces = 64

// pathForm is what the paths look like: four segments, the first of which is the
// namespace's. The digits are put in by putPath.
const pathForm = "bench:/ns00/a00/b00/c0000000"

const pathBytes = len(pathForm)

// Path is the i-th path of the pool that workloads ask for, of at most ten
// million: those next to each other are in different namespaces.
func Path(i int) string {
	b := []byte(pathForm)
	putPath(b, i)
	return string(b)
}

// putPath writes the digits of the i-th path.
func putPath(b []byte, i int) {
	put2(b[9:], i%Namespaces)
	put2(b[13:], i/Namespaces%50)
	put2(b[17:], i/(Namespaces*50)%50)
	for at := pathBytes - 1; at > pathBytes-8; at-- {
		b[at] = byte('0' + i%10)
		i /= 10
	}
}

func put2(b []byte, v int) { b[0], b[1] = byte('0'+v/10), byte('0'+v%10) }
