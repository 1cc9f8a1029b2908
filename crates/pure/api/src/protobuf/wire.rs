//! The wire format of protobuf: tagged values, one after the other.

/// Why bytes are no protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// They end in the middle of something.
    #[error("the protobuf body is cut off")]
    CutOff,
    /// A number is longer than 64 bits.
    #[error("a number in the protobuf body is too long")]
    TooLong,
    /// A value has a type that does not exist or is not used.
    #[error("a value in the protobuf body has an unknown wire type")]
    UnknownType,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// A message that is written.
#[derive(Default)]
pub(crate) struct WireWriter(pub(crate) Vec<u8>);

impl WireWriter {
    pub(crate) fn varint(&mut self, number: u64, value: u64) {
        self.push(number << 3);
        self.push(value);
    }

    pub(crate) fn fixed64(&mut self, number: u64, value: u64) {
        self.push(number << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, number: u64, value: &[u8]) {
        self.head(number, value.len());
        self.0.extend_from_slice(value);
    }

    /// What stands before a value of so many bytes.
    pub(super) fn head(&mut self, number: u64, bytes: usize) {
        self.push(number << 3 | 2);
        self.push(bytes as u64);
    }

    /// A message within, which `write` adds. It is written in its place: its length, which stands
    /// before it, is known after it. That of most takes the one byte that is left for it.
    pub(crate) fn nested<T, E>(
        &mut self,
        number: u64,
        write: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.push(number << 3 | 2);
        self.0.push(0);
        let begin = self.0.len();
        let written = write(self)?;
        let length = self.0.len() - begin;
        if length < 0x80 {
            self.0[begin - 1] = length as u8;
        } else {
            let mut longer = Self::default();
            longer.push(length as u64);
            self.0.splice(begin - 1..begin, longer.0);
        }
        Ok(written)
    }

    fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// A cursor over a message.
pub(super) struct WireReader<'a> {
    rest: &'a [u8],
}

impl<'a> WireReader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field number with its value; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, WireValue<'a>)>, WireError> {
        let Some(tag) = self.next_varint()? else { return Ok(None) };
        let value = match tag & 7 {
            0 => WireValue::Varint(self.next_varint()?.ok_or(WireError::CutOff)?),
            1 => WireValue::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.next_varint()?.ok_or(WireError::CutOff)?;
                let length = usize::try_from(length).map_err(|_| WireError::CutOff)?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => WireValue::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(WireError::UnknownType),
        };
        Ok(Some((tag >> 3, value)))
    }

    /// The next number; none at the end.
    pub(super) fn next_varint(&mut self) -> Result<Option<u64>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut number: u64 = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(Some(number));
            }
        }
        Err(WireError::TooLong)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::CutOff)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(WireError::CutOff)?;
        self.rest = rest;
        Ok(*taken)
    }
}
