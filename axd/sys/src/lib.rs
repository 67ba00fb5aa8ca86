//! What ax asks of Linux.
