package decode

// sortable is what a heap holds.
type sortable[T any] interface {
	before(T) bool
}

// heap is a binary heap with the least element first.
type heap[T sortable[T]] []T

func (h *heap[T]) push(v T) {
	*h = append(*h, v)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

// pop removes the first element.
func (h *heap[T]) pop() {
	s := *h
	last := len(s) - 1
	s[0] = s[last]
	var none T
	s[last] = none
	*h = s[:last]
	h.fix()
}

// fix restores the order after the first element has grown.
func (h heap[T]) fix() {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
