//! Formats with check digits.

fn digits_of(text: &str) -> Vec<u32> {
    text.chars().filter_map(|sign| sign.to_digit(10)).collect()
}

/// A number of a known issuer with the right check digit (Luhn).
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits = digits_of(text);
    let starts = |from: u32, to: u32, len: usize| {
        let head = digits.iter().take(len).fold(0, |sum, digit| sum * 10 + digit);
        digits.len() > len && (from..=to).contains(&head)
    };
    let is_known = match digits.len() {
        13 => starts(4, 4, 1),
        14 => starts(300, 305, 3) || starts(36, 36, 2) || starts(38, 38, 2),
        15 => {
            starts(34, 34, 2) || starts(37, 37, 2) || starts(2131, 2131, 4) || starts(1800, 1800, 4)
        }
        16 => {
            starts(4, 4, 1)
                || starts(51, 55, 2)
                || starts(6011, 6011, 4)
                || starts(650, 659, 3)
                || starts(35, 35, 2)
        }
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match at % 2 {
            0 => *digit,
            _ => (digit * 2) / 10 + (digit * 2) % 10,
        })
        .sum();
    is_known && sum.is_multiple_of(10)
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|sign| !matches!(sign, ' ' | '-' | '\t' | '\n' | '\r')).collect()
}

/// Ten digits with a weighted sum that is a multiple of 11. The last may be an X.
pub(super) fn is_isbn10(text: &str) -> bool {
    let bare = without_separators(text);
    if bare.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (at, sign) in bare.chars().enumerate() {
        let value = match sign.to_digit(10) {
            Some(digit) => digit,
            None if at == 9 && sign == 'X' => 10,
            None => return false,
        };
        sum += value * (at as u32 + 1);
    }
    sum.is_multiple_of(11)
}

/// Thirteen digits, weighted by 1 and 3.
pub(super) fn is_isbn13(text: &str) -> bool {
    let bare = without_separators(text);
    if bare.len() != 13 || !bare.bytes().all(|sign| sign.is_ascii_digit()) {
        return false;
    }
    let weighted = digits_of(&bare).into_iter().enumerate();
    let sum: u32 = weighted.map(|(at, digit)| if at % 2 == 0 { digit } else { digit * 3 }).sum();
    sum.is_multiple_of(10)
}
