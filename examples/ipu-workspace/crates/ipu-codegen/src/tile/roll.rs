//! Finds calls of one kernel whose arguments advance evenly, and makes them one
//! call with a count. Works on buffers, not addresses, so that code has the
//! same length wherever its buffers end up.

use super::Call;
use crate::low::{Argument, MAX_ARGUMENTS};

/// Rolls runs of single calls.
pub fn roll(calls: impl Iterator<Item = Call>) -> impl Iterator<Item = Call> {
    let mut calls = calls;
    let mut current: Option<Call> = None;
    std::iter::from_fn(move || {
        for next in calls.by_ref() {
            match current.take() {
                None => current = Some(next),
                Some(call) => match join(&call, &next) {
                    Some(joined) => current = Some(joined),
                    None => {
                        current = Some(next);
                        return Some(call);
                    }
                },
            }
        }
        current.take()
    })
}

/// Both calls as one, if the second continues the first.
#[inline]
fn join(call: &Call, next: &Call) -> Option<Call> {
    if next.count != 1 || call.kernel != next.kernel {
        return None;
    }
    let mut arguments = [None; MAX_ARGUMENTS];
    for (joined, pair) in arguments.iter_mut().zip(call.arguments.iter().zip(&next.arguments)) {
        *joined = match pair {
            (None, None) => None,
            (Some(first), Some(second)) => Some(advance(first, second, call.count)?),
            _ => return None,
        };
    }
    Some(Call { arguments, count: call.count + 1, ..*call })
}

/// The argument with the stride that leads from the first call to the next.
#[inline]
fn advance(first: &Argument, next: &Argument, count: u32) -> Option<Argument> {
    if first.buffer != next.buffer {
        return None;
    }
    if count == 1 {
        let stride = next.word.checked_sub(first.word)?;
        return Some(Argument { stride, ..*first });
    }
    (first.word + first.stride * count == next.word).then_some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KernelKey;
    use crate::low::BufferId;

    fn call(word: u32) -> Call {
        let argument = Argument { buffer: BufferId(2), word, stride: 0 };
        Call { kernel: KernelKey::COPY, arguments: [Some(argument), None, None, None], count: 1 }
    }

    #[test]
    fn even_steps_become_one_call() {
        let rolled: Vec<Call> = roll([0, 8, 16, 24, 100, 101].map(call).into_iter()).collect();
        let shape: Vec<_> =
            rolled.iter().map(|c| (c.count, c.arguments[0].unwrap().stride)).collect();
        assert_eq!(shape, [(4, 8), (2, 1)]);
    }

    #[test]
    fn other_kernels_and_buffers_stay_apart() {
        let mut other = call(8);
        other.kernel.rows = 9;
        assert_eq!(roll([call(0), other, call(16)].into_iter()).count(), 3);
        let mut elsewhere = call(8);
        elsewhere.arguments[0].as_mut().unwrap().buffer = BufferId(3);
        assert_eq!(roll([call(0), elsewhere].into_iter()).count(), 2);
    }
}
