//! Variable-length integers: seven bits a byte, least significant first.

/// Appends `value` to `out`, in one to ten bytes.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a value off the front of `input`; none when it is cut off or too long.
pub fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(values: Vec<u64>) {
            let mut bytes = Vec::new();
            values.iter().for_each(|&v| put(&mut bytes, v));
            let mut input = bytes.as_slice();
            for value in values {
                prop_assert_eq!(take(&mut input), Some(value));
            }
            prop_assert!(input.is_empty());
        }

        #[test]
        fn noise_never_panics(bytes: Vec<u8>) {
            let mut input = bytes.as_slice();
            while take(&mut input).is_some() {}
        }
    }
}
